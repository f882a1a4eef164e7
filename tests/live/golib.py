# SPDX-License-Identifier: Apache-2.0
"""Building Go programs for tests, without the network."""
import os
import shutil
import subprocess


class Go:
    """A toolchain. Its own library takes longest to compile: all tests of a tree share the cache of what was compiled,
    whose keys hold the toolchain and the flags."""

    def __init__(self, sources, folder, path=None):
        self.path, self.sources, self.folder = path or shutil.which('go'), os.path.abspath(sources), folder
        root = os.path.normpath(f'{self.sources}/../../..')
        cache = f'{root}/build-go' if os.access(root, os.W_OK) else f'{folder}/cache'
        self.env = {**os.environ, 'GOTOOLCHAIN': 'local', 'GOFLAGS': '-mod=mod', 'GOPROXY': 'off', 'GOCACHE': cache,
                    'GOPATH': f'{folder}/path'}

    def build(self, name, package, *flags):
        """Returns the program's path, None where this toolchain cannot build it."""
        path = f'{self.folder}/{name}'
        r = subprocess.run([self.path, 'build', *flags, '-o', path, package], cwd=self.sources, env=self.env,
                           capture_output=True, text=True)
        if r.returncode:
            print('# ' + r.stderr.strip().replace('\n', '\n# '), flush=True)
        return None if r.returncode else path
