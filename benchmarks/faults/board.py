"""The page of the scoreboard: generated, and never edited by hand."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from benchmarks.faults.contestants import CONTESTANTS
from benchmarks.faults.run import AGAIN, FAULTS, FROZEN, GAP, LONGEST_WAIT, QUIET, TIMES, WORKERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEAD = """# Scoreboard of faults

The same faults for this queue and for others that keep their messages in PostgreSQL. `bin/bench --faults --page
docs/scoreboard.md` makes this page, from one run; [how it measures](../benchmarks/README.md#the-scoreboard---faults).
[Choose a queue](how-to/choose.md) compares what such a run can't show. On your own database,
[`queue_torture`](commands.md#queue_torture) does the same to this queue alone.

"""


def page(about: Mapping[str, Any], scores: Mapping[str, Mapping[str, Any]], missing: Mapping[str, str]) -> str:
    """Return the page. ``scores``: by adapter and fault; ``missing``: why a contestant could not take part."""
    lines = [*_run(about), "", *_table(scores, missing), "", *_again(scores), "", *_settings(about)]
    return "\n".join([_HEAD.rstrip(), "", *map(_wrapped, lines), ""])


def _wrapped(line: str) -> str:
    return line if line.startswith("|") else textwrap.fill(line, 120, break_long_words=False, break_on_hyphens=False)


def _run(about: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"Run on {about['date']}, with {about['server']}, on {about['cores']} cores, seed {about['seed']}. Each fault "
        f"comes again and again for {about['seconds']:g} s, to one of {WORKERS} workers, while a sender stores a "
        f"message each {GAP * 1000:g} ms. A worker that ends is started again, as systemd does."
    )


def _table(scores: Mapping[str, Mapping[str, Any]], missing: Mapping[str, str]) -> Iterator[str]:
    yield "## Lost, doubled, hung"
    yield ""
    yield (
        "**Lost**: the sender was told that it is stored, and it is neither done, nor waiting, nor recorded as failed. "
        "**Doubled**: rows that handlers committed beyond one for each message. **Hung**: unfinished when nothing had "
        f"changed for {QUIET:g} s, which is longer than each of these queues needs to recover with its settings, or "
        f"after {LONGEST_WAIT:g} s. "
        "**Failed**: recorded as failed for good, without a row. *none* means none of these."
    )
    yield ""
    yield "| queue | " + " | ".join(FAULTS) + " |"
    yield "|---|" + "---|" * len(FAULTS)
    for each in CONTESTANTS:
        if each.adapter in missing:
            yield f"| {each.title} | " + " | ".join(["not run"] * len(FAULTS)) + " |"
        elif each.adapter in scores:
            yield f"| {each.title} | " + " | ".join(_cell(scores[each.adapter].get(fault)) for fault in FAULTS) + " |"
    yield ""
    yield "| fault | what happens | times in a run |"
    yield "|---|---|---|"
    for fault, words in FAULTS.items():
        times = {score[fault].get("injected", 0) for score in scores.values() if fault in score} - {0}
        yield f"| {fault} | {words} | {f'{min(times)} to {max(times)}' if times else '-'} |"
    for adapter, why in missing.items():
        yield ""
        yield f"*{_title(adapter)}* was not run: {why}"


def _cell(score: Mapping[str, Any] | None) -> str:
    if score is None:
        return "not run"
    if "error" in score:
        return f"could not run: {score['error']}"
    wrong = ", ".join(f"{score[name]} {name}" for name in ("lost", "doubled", "hung", "failed") if score[name])
    return f"{wrong or 'none'} of {score['sent']}"


def _again(scores: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "## Until a dead worker's message runs again"
    yield ""
    yield (
        f"A worker is killed while it handles a message, and another one lives: {TIMES} times, one after another. "
        "Seconds from the kill to the first line of the handler that runs the message again, with the settings below, "
        "in the same run; beside them what its documentation or its source says of the defaults."
    )
    yield ""
    yield "| queue | here | by default |"
    yield "|---|---|---|"
    for each in CONTESTANTS:
        if score := scores.get(each.adapter, {}).get(AGAIN):
            yield f"| {each.title} | {_seconds(score)} | {each.by_default} |"


def _seconds(score: Mapping[str, Any]) -> str:
    if "error" in score:
        return f"could not run: {score['error']}"
    found = sorted(score["seconds"])
    return f"{found[0]:.1f} to {found[-1]:.1f} s" if found else f"not within {QUIET:g} s"


def _settings(about: Mapping[str, Any]) -> Iterator[str]:
    yield "## What each promises, and its settings here"
    yield ""
    yield "| queue | version | Python | promises | settings | what would change it |"
    yield "|---|---|---|---|---|---|"
    for each in CONTESTANTS:
        version = about["versions"].get(each.adapter, "-")
        python = about["pythons"].get(each.adapter, "-")
        yield f"| {each.title} | {version} | {python} | {each.promises} | {each.settings} | {each.would_change} |"
    yield ""
    yield (
        "A doubled row is no bug of a queue that promises *at least once*: the handler committed, and its ack did not. "
        "Handlers there must be safe to repeat. The settings of recovery are shorter than the defaults, so that a run "
        f"takes minutes; a worker is frozen for {FROZEN:g} s, longer than each of them. Where workers hold many "
        "messages at once, one fault hits more of them: compare whether there is a number, rather than how large it "
        "is. Whom the faults hit is drawn by the seed; what the processes are at by then, chance decides, so numbers "
        "differ from run to run."
    )


def _title(adapter: str) -> str:
    return next(each.title for each in CONTESTANTS if each.adapter == adapter)
