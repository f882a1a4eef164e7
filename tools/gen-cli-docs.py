#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts made from src/cli/options.def.

    gen-cli-docs.py man OPTIONS.DEF TEMPLATE    the template with its lines @OPTIONS@, @COMMANDS@ replaced (scdoc source)
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
            raise SystemExit(f'options.def: ( missing after {name}')
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


class Command:
    def __init__(self, args):
        self.name, self.argument, self.help, self.more = args
        self.options = []


class CommandOption:
    def __init__(self, args):
        _, self.name, self.argument, self.help, self.more = args


def read_commands(path):
    """Further texts to generate."""
    with open(path, encoding='utf-8') as f:
        text = f.read()
    commands = {}
    for macro, args in calls(text):
        if macro == 'CLI_COMMAND':
            commands[args[0]] = Command(args)
        elif macro == 'CLI_COMMAND_OPTION':
            commands[args[0]].options.append(CommandOption(args))
    return list(commands.values())


def read_options(path):
    with open(path, encoding='utf-8') as f:
        text = f.read()
    group, options = None, []
    for macro, args in calls(text):
        if macro == 'CLI_GROUP':
            group = args[0]
        elif macro == 'CLI_OPTION':
            options.append(Option(group, args))
        elif macro not in ('CLI_HIDDEN', 'CLI_COMMAND', 'CLI_COMMAND_OPTION'):
            raise SystemExit(f'options.def: unknown macro {macro}')
    return options


def sentence(text):
    return text[0].upper() + text[1:] + '.'


def man_commands(commands):
    out = []
    for c in commands:
        out += [f'*{c.name}* _{c.argument}_', '\t' + ' '.join(filter(None, [sentence(c.help), c.more])), '']
        for o in c.options:
            out += [f'*{c.name}* _{c.argument}_ *--{o.name}* _{o.argument}_',
                    '\t' + ' '.join(filter(None, [sentence(o.help), o.more])), '']
    return '\n'.join(out)


def man(options, commands, template):
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
    if text.count('@COMMANDS@\n') != 1:
        raise SystemExit(f'{template}: one line @COMMANDS@ is needed')
    return text.replace('@OPTIONS@\n', '\n'.join(out)).replace('@COMMANDS@\n', man_commands(commands))


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
	case "${{COMP_WORDS[1]}}" in
{commands}	esac
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


def completion(options, commands):
    cases, names, others = '', [], ''
    for c in commands:
        words = ' '.join(f'--{o.name}' for o in c.options)
        others += (f'\t{c.name})\n\t\tif ((COMP_CWORD > 1)); then\n\t\t\tif [[ $cur == -* ]]; then\n'
                   f'\t\t\t\t_perf_agent_words -W "{words} " -- "$cur"\n\t\t\telse\n'
                   '\t\t\t\t_perf_agent_words -f -- "$cur"\n\t\t\tfi\n\t\t\treturn\n\t\tfi\n\t\t;;\n')
    for o in options:
        names += [f'--{o.name}'] + ([f'-{o.short}'] if o.short else [])
        if o.kind != 'BOOL':
            cases += f'\t-{o.name} | --{o.name})\n\t\t{completion_command(o)}\n\t\treturn\n\t\t;;\n'
    names += ['--'] + [c.name for c in commands]
    return COMPLETION.format(cases=cases, commands=others, names=' '.join(names))


def main(argv):
    if len(argv) == 4 and argv[1] == 'man':
        text = man(read_options(argv[2]), read_commands(argv[2]), argv[3])
    elif len(argv) == 3 and argv[1] == 'completion':
        text = completion(read_options(argv[2]), read_commands(argv[2]))
    else:
        raise SystemExit(__doc__)
    sys.stdout.reconfigure(encoding='utf-8')
    sys.stdout.write(text)


if __name__ == '__main__':
    main(sys.argv)
