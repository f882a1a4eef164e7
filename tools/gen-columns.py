#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the ranges of src/base/columns.c: characters that take no column of a terminal, or two, by Unicode's data of this Python.

Combining characters, format characters and the later parts of Hangul syllables take none, as in the C library; East Asian wide
characters, emoji among them, take two. Ranges extend over code points without a character.
"""
import sys
import unicodedata

# Format characters that are drawn.
DRAWN = {0xad, 0x6dd, 0x70f, 0x8e2, 0x890, 0x891, 0x110bd, 0x110cd, *range(0x600, 0x606)}


def columns(code):
    char, kind = chr(code), unicodedata.category(chr(code))
    if kind == "Cn":
        return None
    if kind in ("Mn", "Me") or (kind == "Cf" and code not in DRAWN) or 0x1160 <= code <= 0x11ff or 0xd7b0 <= code <= 0xd7fb:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def ranges():
    first = last = width = None
    for code in range(0xa0, 0x110000):
        now = None if 0xd800 <= code < 0xe000 else columns(code)
        if now is None:
            continue
        if now != width:
            if width in (0, 2):
                yield first, last, width
            first, width = code, now
        last = code
    if width in (0, 2):
        yield first, last, width


def main():
    items = [f"X({first:#x}, {last:#x}, {width})" for first, last, width in ranges()]
    print(f"/* Unicode {unicodedata.unidata_version}: first, last, columns. Ascending. */")
    line = ""
    for item in items:
        if len(line) + len(item) > 98:
            print(line.rstrip())
            line = ""
        line += item + " "
    print(line.rstrip())


sys.exit(main())
