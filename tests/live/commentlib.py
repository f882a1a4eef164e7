# SPDX-License-Identifier: Apache-2.0
"""Packed comments of a profile; docs/output.md has the rule."""
import re

PACKED = '# perf-agent: '


def items(comment):
    """The items of a comment; one that is not packed is a single item."""
    if not comment.startswith(PACKED):
        return [comment]
    parts = re.findall(r'((?:\\[;\\]|(?!; ).)*)(?:; |$)', comment[len('# '):])
    return [re.sub(r'\\([;\\])', r'\1', part) for part in parts[:-1]]


def unpacked(comments):
    """The items of all comments, in their order."""
    return [item for comment in comments for item in items(comment)]
