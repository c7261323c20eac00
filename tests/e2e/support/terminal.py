"""Runs a program on a terminal of its own, and answers each question with the next of some letters.

    terminal.py LETTERS PROGRAM ARGUMENT...
"""

import os
import pty
import sys

QUESTION = b"[q]uit: "

letters, argv = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(argv[0], argv)
said, answered = b"", 0
while True:
    try:
        data = os.read(terminal, 4096)
    except OSError:
        break  # Its end is gone.
    if not data:
        break
    said += data
    while answered < min(said.count(QUESTION), len(letters)):
        os.write(terminal, letters[answered].encode() + b"\n")
        answered += 1
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(said.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(status))
