"""Runs a program on a terminal of its own, and answers each question with the next of some answers,
which stand with commas between. A question is a last line with a `?` in it that ends in `: `.

    terminal.py ANSWERS PROGRAM ARGUMENT...
"""

import os
import pty
import re
import sys

answers, argv = sys.argv[1].split(","), sys.argv[2:]
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
    if answered < len(answers) and re.search(rb"\?[^\n]*: \Z", said):
        os.write(terminal, answers[answered].encode() + b"\n")
        answered += 1
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(said.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(status))
