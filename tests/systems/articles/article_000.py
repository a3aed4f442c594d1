"""Article 000: "Rolling your own message/job queue in MySQL (Part 3: Message Queue Implementation)", 2013-04-23.

The author gives no name. The statements are those that point 5 to 7 of his specification describe and that his Perl
program makes.
"""

from __future__ import annotations

from tests.systems.articles import ask, run

TABLE = "queue_test"
CREATE = """
CREATE TABLE `queue_test` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `transaction_unique` mediumint(8) unsigned DEFAULT NULL,
  `payload` text,
  PRIMARY KEY (`id`),
  KEY `transaction_unique` (`transaction_unique`)
) ENGINE=InnoDB
"""
TOKENS = 2**24
"""His token: int(rand(2**24))."""
MARK = "UPDATE queue_test SET transaction_unique = %s WHERE transaction_unique IS NULL ORDER BY id LIMIT %s"
MARKED = "SELECT id, payload FROM queue_test WHERE transaction_unique = %s"


def queue(*payloads: str) -> None:
    for payload in payloads:
        run("INSERT INTO queue_test (payload) VALUES (%s)", payload)


def dequeue(token: int, wanted: int = 1) -> list[tuple[int, str]]:
    run(MARK, token, wanted)
    return ask(MARKED, token)


def accept(message_id: int) -> int:
    return run("DELETE FROM queue_test WHERE id = %s", message_id)


def reject(message_id: int) -> int:
    return run("UPDATE queue_test SET transaction_unique = NULL WHERE id = %s", message_id)


def count() -> int:
    return ask("SELECT COUNT(*) FROM queue_test WHERE transaction_unique IS NULL")[0][0]
