"""Refuse, and write down, whatever a Python process on this PYTHONPATH wants from outside of its machine.

An audit hook sees every socket of the interpreter, also those that a library opens in a thread
and whose errors it hides.
"""

import os
import socket
import sys
from pathlib import Path

_HOSTS = {"connect": 1, "sendto": 1, "getaddrinfo": 0, "gethostbyname": 0, "gethostbyaddr": 0}


def _is_local(host):
    name = host.decode() if isinstance(host, bytes) else host
    names = (None, "", "localhost", "0.0.0.0", "::", "::1", socket.gethostname())
    return name in names or name.removeprefix("::ffff:").startswith("127.")


def _refuse(event, arguments):
    place, _, action = event.partition(".")
    if place != "socket" or action not in _HOSTS:
        return
    host = arguments[_HOSTS[action]]
    if action in ("connect", "sendto"):
        if arguments[0].family not in (socket.AF_INET, socket.AF_INET6):
            return
        host = host[0]
    if not _is_local(host):
        with Path(os.environ["REFUSED_SOCKETS"]).open("a", encoding="utf-8") as log:
            log.write(f"{action} {host} {sys.orig_argv}\n")
        raise OSError(f"a test refuses to reach {host}")


sys.addaudithook(_refuse)
