from __future__ import annotations

import signal

from tests.servers.private import PrivateServer, needed_program


class MariaDB(PrivateServer):
    """Durable, as the promises need it: flushed at commit, with a binary log of rows."""

    name = "mariadb"
    accounts = ("mysql",)
    stop_signal = signal.SIGTERM
    package = "mariadb-server-core mariadb-client-core"

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/mysql"

    def set_up_command(self) -> list[str]:
        return [
            needed_program("mariadb-install-db", package=self.package),
            "--no-defaults",
            f"--datadir={self.data}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]

    def command(self) -> list[str]:
        return [
            needed_program("mariadbd", package=self.package),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={self.home}",
            f"--socket={self.home}/sock",
            f"--pid-file={self.home}/pid",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--character-set-server=utf8mb4",
            "--max-connections=300",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-buffer-pool-size=256M",
            "--innodb-log-file-size=256M",
            "--loose-innodb-flush-method=fsync",  # memory file systems have no O_DIRECT
            "--log-bin=bin",
            "--server-id=1",
            "--binlog-format=ROW",
            "--sync-binlog=1",
            "--max-binlog-size=64M",
            "--loose-max-binlog-total-size=256M",
        ]
