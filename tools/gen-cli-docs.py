#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts made from src/cli/options.def.

    gen-cli-docs.py man OPTIONS.DEF TEMPLATE    the template with its line @OPTIONS@ replaced (scdoc source)
    gen-cli-docs.py completion OPTIONS.DEF      completion for bash
"""
import re
import sys

TOKEN = re.compile(
    r'\s+|/\*.*?\*/|"(?P<string>(?:[^"\\]|\\.)*)"|\'(?P<char>[^\'])\'|(?P<word>\w+)|(?P<punct>[(),;])', re.S)
ESCAPES = {'n': '\n', 't': '\t', '"': '"', '\\': '\\'}


def tokens(text):
    at = 0
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise SystemExit(f'options.def: cannot read at byte {at}: {text[at:at + 30]!r}')
        at = m.end()
        if m.lastgroup == 'string':
            yield 'string', re.sub(r'\\(.)', lambda e: ESCAPES[e[1]], m['string'])
        elif m.lastgroup:
            yield m.lastgroup, m[m.lastgroup]


def calls(text):
    """(macro name, [argument…]) of each call; adjacent strings are one, NULL is None."""
    stream = tokens(text)
    for kind, name in stream:
        if kind != 'word':
            raise SystemExit(f'options.def: {name!r} is no macro call')
        if next(stream) != ('punct', '('):
            raise SystemExit(f'options.def: ( missing behind {name}')
        args, current = [], []
        for kind, value in stream:
            if kind == 'punct' and value in ',)':
                strings = [v for k, v in current if k == 'string']
                if strings:
                    args.append(''.join(strings))
                else:
                    args.append(None if current == [('word', 'NULL')] else current[0][1])
                current = []
                if value == ')':
                    break
            else:
                current.append((kind, value))
        yield name, args


class Option:
    def __init__(self, group, args):
        _, self.name, short, self.argument, self.kind, self.completion, self.help, self.more = args
        self.group = group
        self.short = None if short == '0' else short


def read_options(path):
    with open(path, encoding='utf-8') as f:
        text = f.read()
    group, options = None, []
    for macro, args in calls(text):
        if macro == 'CLI_GROUP':
            group = args[0]
        elif macro == 'CLI_OPTION':
            options.append(Option(group, args))
        elif macro != 'CLI_HIDDEN':
            raise SystemExit(f'options.def: unknown macro {macro}')
    return options


def sentence(text):
    return text[0].upper() + text[1:] + '.'


def man(options, template):
    with open(template, encoding='utf-8') as f:
        text = f.read()
    out, group = [], None
    for o in options:
        if o.group != group:
            group = o.group
            out += ['## ' + group.rstrip(':'), '']
        names = (f'*-{o.short}*, ' if o.short else '') + f'*--{o.name}*'
        out += [names + (f' _{o.argument}_' if o.argument else '')]
        out += ['\t' + ' '.join(filter(None, [sentence(o.help), o.more])), '']
    if text.count('@OPTIONS@\n') != 1:
        raise SystemExit(f'{template}: one line @OPTIONS@ is needed')
    return text.replace('@OPTIONS@\n', '\n'.join(out))


COMPLETION = '''\
# SPDX-License-Identifier: Apache-2.0
# bash completion for perf-agent; made from options.def

_perf_agent_words()
{{
	mapfile -t COMPREPLY < <(compgen "$@")
}}

_perf_agent()
{{
	local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD - 1]}}" i

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${{COMP_WORDS[i]}} == -- ]]; then
			if ((i == COMP_CWORD - 1)); then
				_perf_agent_words -c -- "$cur"
			else
				_perf_agent_words -f -- "$cur"
			fi
			return
		fi
	done
	# "--name=value" reaches us as three words.
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev="${{COMP_WORDS[COMP_CWORD - 2]}}"
	fi
	case "$prev" in
{cases}	esac
	_perf_agent_words -W "{names}" -- "$cur"
}}
complete -F _perf_agent perf-agent
'''


def completion_command(o):
    if o.completion == 'pid':
        return '_perf_agent_words -W "$(cd /proc && printf \'%s \' [0-9]*)" -- "$cur"'
    if o.completion == 'file':
        return '_perf_agent_words -f -- "$cur"'
    if o.completion == 'none':
        return ':'
    return f'_perf_agent_words -W "{o.completion}" -- "$cur"'


def completion(options):
    cases, names = '', []
    for o in options:
        names += [f'--{o.name}'] + ([f'-{o.short}'] if o.short else [])
        if o.kind != 'BOOL':
            cases += f'\t-{o.name} | --{o.name})\n\t\t{completion_command(o)}\n\t\treturn\n\t\t;;\n'
    return COMPLETION.format(cases=cases, names=' '.join(names + ['--']))


def main(argv):
    if len(argv) == 4 and argv[1] == 'man':
        text = man(read_options(argv[2]), argv[3])
    elif len(argv) == 3 and argv[1] == 'completion':
        text = completion(read_options(argv[2]))
    else:
        raise SystemExit(__doc__)
    sys.stdout.reconfigure(encoding='utf-8')
    sys.stdout.write(text)


if __name__ == '__main__':
    main(sys.argv)
