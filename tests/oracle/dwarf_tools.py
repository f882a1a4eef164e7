# SPDX-License-Identifier: Apache-2.0
"""Compilers and symbolizers of others, as test-dwarf-oracle.py runs them."""
import os
import shutil
import subprocess

LIMIT_S = 120  # of one command; llvm-dwp 14 does not end with some inputs


class Skip(Exception):
    """A tool that a case needs is missing."""


class Failed(Exception):
    """A tool that is there does not do its work."""


def run(args, data=None, cwd=None, limit_s=LIMIT_S):
    try:
        done = subprocess.run(args, input=data, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding='utf-8', errors='surrogateescape', env=dict(os.environ, LC_ALL='C'),
                              check=False, timeout=limit_s)
    except subprocess.TimeoutExpired as e:
        raise Failed(f"{' '.join(args)}: not done after {limit_s} s") from e
    if done.returncode != 0:
        raise Failed(f"{' '.join(args)}: {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def tool(*names):
    for name in names:
        if shutil.which(name):
            return name
    raise Skip(f"{' or '.join(names)} not installed")


def build(args, cwd, limit_s=LIMIT_S):
    """A build that the tool chain cannot do is a SKIP."""
    try:
        run(args, cwd=cwd, limit_s=limit_s)
    except Failed as e:
        raise Skip(str(e).replace('\n', ' ')[:300]) from e
