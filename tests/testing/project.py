"""A project that is not ours: its own directory, settings and process, with this package as if installed there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


FILES = {
    "manage.py": """\
import os, sys
from django.core.management import execute_from_command_line

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
execute_from_command_line(sys.argv)
""",
    "shop/__init__.py": "",
    "shop/settings.py": """\
SECRET_KEY = "for tests only"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_dbqueue", "accounts"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
""",
    "accounts/__init__.py": "",
}


class Project:
    """The project ``shop`` with the app ``accounts``, whose tests have a database in memory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "project"
        self.directory.mkdir()
        site = directory / "site"
        self._install_into(site)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "DBQUEUE_", "PY"))}
        self.environment = kept | {
            "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.site = site
        for path, text in FILES.items():
            self.write(path, text)

    @staticmethod
    def _install_into(site: Path) -> None:
        """Write what an installer makes of pyproject.toml's entry points."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        info = site / "django_dbqueue-0.1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: django-dbqueue\nVersion: 0.1.0\n")
        groups = [
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
            for group, points in project["entry-points"].items()
        ]
        (info / "entry_points.txt").write_text("\n".join(groups))

    def write(self, path: str, text: str) -> None:
        """Append to a file, which is made if it isn't there."""
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as opened:
            opened.write(text)

    def run(self, command: str, *, fails: bool = False) -> str:
        """Run a command, and return all that it said."""
        line = re.sub(r"^python ", f"{sys.executable} ", command)
        done = subprocess.run(
            line, shell=True, cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False
        )
        output = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, f"{command}\n{output}"
        return output
