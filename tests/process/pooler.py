"""A relay that greets like a pooler: with a session id of its own, which is not the one that works behind it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

Rename = Callable[[bytes], tuple[bytes, bool]]
"""Changes what the server sends; says whether that was all there is to change."""
OTHER = (987_654_321).to_bytes(4, "little")


@contextmanager
def relay(url: str, *, clients: list[socket.socket] | None = None, leads_to: list[str] | None = None) -> Iterator[str]:
    """The URL of a relay to that server; ``clients`` gets each connection to it, for the test to cut.

    With ``leads_to`` it is no pooler but the name of an endpoint: a new connection leads to the last of these URLs.
    """
    address = urlsplit(url)
    rename: Rename | None = _rename_on_mysql if address.scheme == "mysql" else _rename_on_postgresql
    if leads_to is not None:
        rename = None
    clients = [] if clients is None else clients
    threads: list[threading.Thread] = []

    def accept() -> None:
        with suppress(OSError):  # the listener was shut down
            while True:
                clients.append(listener.accept()[0])
                there = _place_of(leads_to[-1] if leads_to else url)
                threads.append(threading.Thread(target=_connect, args=(clients[-1], there, rename)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept)
        acceptor.start()
        account = address.netloc.rpartition("@")[0]
        try:
            yield address._replace(netloc=f"{account}@127.0.0.1:{listener.getsockname()[1]}").geturl()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for client in clients:
                with suppress(OSError):  # it has gone by itself
                    client.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def _place_of(url: str) -> tuple[str, int]:
    address = urlsplit(url)
    assert address.hostname
    assert address.port
    return address.hostname, address.port


def _connect(client: socket.socket, there: tuple[str, int], rename: Rename | None) -> None:
    with client, socket.create_connection(there) as server:
        back = threading.Thread(target=_pump, args=(server, client, rename))
        back.start()
        _pump(client, server, None)
        back.join()


def _pump(source: socket.socket, target: socket.socket, rename: Rename | None) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            if rename is not None:
                data, is_done = rename(data)
                rename = None if is_done else rename
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _rename_on_mysql(data: bytes) -> tuple[bytes, bool]:
    """The first packet: length and number (4 bytes), protocol (1), version up to NUL, the session's id (4)."""
    at = data.index(b"\0", 5) + 1
    return data[:at] + OTHER + data[at + 4 :], True


def _rename_on_postgresql(data: bytes) -> tuple[bytes, bool]:
    """BackendKeyData: K, length 12, the session's id (4), a secret (4). The relay is asked for no encryption."""
    at = data.find(b"K\0\0\0\x0c")
    if at < 0:
        return data, False
    return data[: at + 5] + OTHER + data[at + 9 :], True
