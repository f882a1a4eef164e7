#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts made from src/cli/options.def.

    gen-cli-docs.py man OPTIONS.DEF TEMPLATE    the template with its lines @OPTIONS@, @COMMANDS@ replaced (scdoc source)
    gen-cli-docs.py bash|zsh|fish OPTIONS.DEF   completion for this shell
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


# How a shell completes the values of the options of commands; others: nothing.
COMMAND_WORDS = {
    'format': 'text markdown json folded pprof html svg',
    'by': 'process thread module file line',
    'output': 'file',
    'source-dir': 'file',
    'debug-dir': 'file',
}


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
        _, self.name, *short, self.argument, self.help, self.more = args
        self.short = short[0] if short else None
        self.completion = COMMAND_WORDS.get(self.name, 'none')


def read_commands(path):
    """Further texts to generate."""
    with open(path, encoding='utf-8') as f:
        text = f.read()
    commands = {}
    for macro, args in calls(text):
        if macro == 'CLI_COMMAND':
            commands[args[0]] = Command(args)
        elif macro in ('CLI_COMMAND_OPTION', 'CLI_COMMAND_SHORT'):
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
        elif macro not in ('CLI_HIDDEN', 'CLI_COMMAND', 'CLI_COMMAND_OPTION', 'CLI_COMMAND_SHORT'):
            raise SystemExit(f'options.def: unknown macro {macro}')
    return options


def sentence(text):
    return (text[0].upper() + text[1:] + '.').replace('*', r'\*')


def man_commands(commands):
    out = []
    for c in commands:
        out += [f'*{c.name}* _{c.argument}_', '\t' + ' '.join(filter(None, [sentence(c.help), c.more])), '']
        for o in c.options:
            short = f'*-{o.short}*, ' if o.short else ''
            out += [f'*{c.name}* _{c.argument}_ {short}*--{o.name}*' + (f' _{o.argument}_' if o.argument else ''),
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

# Numbers and names of processes, after the last comma.
_perf_agent_pids()
{{
	local before= word="$1"

	if [[ $word == *,* ]]; then
		before="${{word%,*}},"
		word="${{word##*,}}"
	fi
	mapfile -t COMPREPLY < <({{
		cd /proc && printf '%s\n' [0-9]*
		cat /proc/[0-9]*/comm 2>/dev/null | grep -v '[^[:alnum:]._-]' | sort -u
	}} | grep -F -- "$word" | while IFS= read -r name; do
		[[ $name == "$word"* ]] && printf '%s%s\n' "$before" "$name"
	done)
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
        return '_perf_agent_pids "$cur"'
    if o.completion == 'file':
        return '_perf_agent_words -f -- "$cur"'
    if o.completion == 'none':
        return ':'
    return f'_perf_agent_words -W "{o.completion}" -- "$cur"'


def bash(options, commands):
    cases, names, others = '', [], ''
    for c in commands:
        words = ' '.join(f'--{o.name}' for o in c.options)
        values = ''.join(f'\t\t\t{f"-{o.short} | " if o.short else ""}-{o.name} | --{o.name})\n\t\t\t\t{completion_command(o)}\n\t\t\t\treturn\n\t\t\t\t;;\n'
                         for o in c.options if o.argument)
        if values:
            values = f'\t\t\tcase "$prev" in\n{values}\t\t\tesac\n'
        others += (f'\t{c.name})\n\t\tif ((COMP_CWORD > 1)); then\n{values}\t\t\tif [[ $cur == -* ]]; then\n'
                   f'\t\t\t\t_perf_agent_words -W "{words} " -- "$cur"\n\t\t\telse\n'
                   '\t\t\t\t_perf_agent_words -f -- "$cur"\n\t\t\tfi\n\t\t\treturn\n\t\tfi\n\t\t;;\n')
    for o in options:
        names += [f'--{o.name}'] + ([f'-{o.short}'] if o.short else [])
        if o.kind != 'BOOL':
            letter = f'-{o.short} | ' if o.short else ''
            cases += f'\t{letter}-{o.name} | --{o.name})\n\t\t{completion_command(o)}\n\t\treturn\n\t\t;;\n'
    names += ['--'] + [c.name for c in commands]
    return COMPLETION.format(cases=cases, commands=others, names=' '.join(names))


ZSH = '''\
#compdef perf-agent
# SPDX-License-Identifier: Apache-2.0
# zsh completion for perf-agent; made from options.def

_perf-agent()
{{
	local -i dash=${{words[(i)--]}}

	# The command to profile is completed as if it were alone.
	if ((dash < CURRENT)); then
		shift $dash words
		((CURRENT -= dash))
		_normal
		return
	fi
	case $words[2] in
{commands}	esac
	((CURRENT == 2)) && compadd -- {names}
	_arguments -S \\
{options}
}}

# Loaded as a function, or read as a file.
if [[ $funcstack[1] == _perf-agent ]]; then
	_perf-agent "$@"
else
	compdef _perf-agent perf-agent
fi
'''


def quoted(text):
    """For an argument of zsh's _arguments, between single quotes."""
    return re.sub(r"([\\\\\[\]:])", r'\\\1', text).replace("'", "'\\''")


def zsh_action(completion):
    if completion == 'pid':
        return '_pids'
    if completion == 'file':
        return '_files'
    return '' if completion == 'none' else f'({completion})'


def zsh_option(spellings, help_text, argument, completion, repeated):
    """One line of _arguments for an option with these spellings."""
    star = '*' if repeated else ''
    group = f"'({' '.join(spellings)})'" if len(spellings) > 1 and not repeated else f"'{star}'" if star else ''
    equals = '=' if argument else ''
    names = [name + (equals if name.startswith('--') else '+' if argument else '') for name in spellings]
    words = '{' + ','.join(names) + '}' if len(names) > 1 else f"'{names[0]}'"
    value = f':{quoted(argument)}:{zsh_action(completion)}' if argument else ''
    return f"\t\t{group}{words}'[{quoted(help_text)}]{value}'"


def zsh(options, commands):
    lines, cases = [], ''
    for o in options:
        spellings = ([f'-{o.short}'] if o.short else []) + [f'--{o.name}']
        lines.append(zsh_option(spellings, o.help, None if o.kind == 'BOOL' else o.argument, o.completion, o.kind == 'LIST'))
    for c in commands:
        own = [zsh_option(([f'-{o.short}'] if o.short else []) + [f'--{o.name}'], o.help, o.argument, o.completion, False) for o in c.options]
        own = ' \\\n'.join(f'\t{line}' for line in own + [f"\t\t'*:{quoted(c.argument)}:_files'"])
        cases += (f'\t{c.name})\n\t\tif ((CURRENT > 2)); then\n\t\t\tshift words\n\t\t\t((CURRENT--))\n'
                  f'\t\t\t_arguments -S \\\n{own}\n\t\t\treturn\n\t\tfi\n\t\t;;\n')
    return ZSH.format(commands=cases, names=' '.join(c.name for c in commands), options=' \\\n'.join(lines))


FISH = '''\
# SPDX-License-Identifier: Apache-2.0
# fish completion for perf-agent; made from options.def

function __perf_agent_command
    contains -- -- (commandline -opc)
end
function __perf_agent_is
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test "$words[2]" = "$argv[1]"
end
function __perf_agent_capture
    not __perf_agent_command
{captures}end

complete -c perf-agent -f
# The command to profile, and its arguments.
complete -c perf-agent -n __perf_agent_command -F -a "(__fish_complete_command)"
'''


def fish_quoted(text):
    return "'" + text.replace('\\', '\\\\').replace("'", "\\'") + "'"


def fish_option(condition, o, takes_value, completion):
    line = f'complete -c perf-agent -n {fish_quoted(condition)} -l {o.name}'
    if o.short:
        line += f' -s {o.short}'
    if takes_value and completion == 'file':
        line += ' -r -F'
    elif takes_value:
        values = {'pid': '(__fish_complete_pids)', 'none': ''}.get(completion, completion)
        line += ' -x' + (f' -a {fish_quoted(values)}' if values else '')
    return line + f' -d {fish_quoted(o.help)}\n'


def fish(options, commands):
    out = FISH.format(captures=''.join(f'    and not __perf_agent_is {c.name}\n' for c in commands))
    for c in commands:
        out += (f'complete -c perf-agent -n __fish_is_first_token -a {c.name} -d {fish_quoted(c.help)}\n'
                f'complete -c perf-agent -n {fish_quoted("__perf_agent_is " + c.name)} -F\n')
        for o in c.options:
            out += fish_option(f'__perf_agent_is {c.name}', o, o.argument, o.completion)
    for o in options:
        out += fish_option('__perf_agent_capture', o, o.kind != 'BOOL', o.completion)
    return out


SHELLS = {'bash': bash, 'zsh': zsh, 'fish': fish}


def main(argv):
    if len(argv) == 4 and argv[1] == 'man':
        text = man(read_options(argv[2]), read_commands(argv[2]), argv[3])
    elif len(argv) == 3 and argv[1] in SHELLS:
        text = SHELLS[argv[1]](read_options(argv[2]), read_commands(argv[2]))
    else:
        raise SystemExit(__doc__)
    sys.stdout.reconfigure(encoding='utf-8')
    sys.stdout.write(text)


if __name__ == '__main__':
    main(sys.argv)
