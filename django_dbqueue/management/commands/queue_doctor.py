"""``manage.py queue_doctor``: whether server and settings keep what the queue promises, and what to do if not."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from django_dbqueue.doctor.examination import examine
from django_dbqueue.doctor.finding import LEVELS, NOTE, OK, PROBLEM, WARNING, Finding
from django_dbqueue.management.common_options import chosen_alias
from django_dbqueue.management.console import TerminalCommand
from django_dbqueue.management.terminal_width import padded

EXIT_ILL: Final = 1
EXIT_WRONG: Final = 2


class Command(TerminalCommand):
    """Check, and change nothing, unless told to set schedules back.

    Exit codes: 0 nothing is wrong; 1 something is, at the level of --fail-level or above; 2 wrong options.
    """

    help = "Check server, settings, tables and workers, and report what is wrong, how much it matters and what to do."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object per line, one for each finding")
        parser.add_argument("--database", help="alias of the database (default: DBQUEUE['DATABASE'], or the router's)")
        parser.add_argument(
            "--fail-level",
            choices=[NOTE, WARNING, PROBLEM],
            default=WARNING,
            help="lowest level of a finding that makes the exit code 1 (default: warning)",
        )
        parser.add_argument(
            "--set-back-schedules",
            action="store_true",
            help="let schedules continue from now if a wrong server clock has put them ahead",
        )

    def handle(self, *_args: object, **options: Any) -> None:
        levels: Counter[str] = Counter()
        is_ill = False
        for finding in examine(self._alias(options["database"]), sets_back=options["set_back_schedules"]):
            levels[finding.level] += 1
            is_ill = is_ill or finding.is_at_least(options["fail_level"])
            self.stdout.write(json.dumps(asdict(finding)) if options["json"] else self._text(finding))
        if not options["json"]:
            self.stdout.write(self._summary(levels))
        self.stdout.flush()
        if is_ill:
            sys.exit(EXIT_ILL)

    def _alias(self, given: str | None) -> str | None:
        """Read --database; without it, the settings must be checked first."""
        try:
            return None if given is None else chosen_alias(given)
        except CommandError as error:
            raise CommandError(str(error), returncode=EXIT_WRONG) from error

    def _text(self, finding: Finding) -> str:
        styled: dict[str, Callable[[str], str]] = {
            OK: self.style.SUCCESS,
            NOTE: str,
            WARNING: self.style.WARNING,
            PROBLEM: self.style.ERROR,
        }
        level = styled[finding.level](padded(_level_word(finding.level), 9))
        lines = [f"{level}{finding.check:<20}{finding.found}"]
        if finding.do:
            lines.append(f"{'':<29}→ {finding.do}")
        return "\n".join(lines)

    def _summary(self, levels: Counter[str]) -> str:
        counts = ", ".join(f"{_level_word(level)}: {levels[level]}" for level in reversed(LEVELS))
        return _("In all: %(counts)s.") % {"counts": counts}


def _level_word(level: str) -> str:
    return {OK: _("ok"), NOTE: _("note"), WARNING: _("WARNING"), PROBLEM: _("PROBLEM")}[level]
