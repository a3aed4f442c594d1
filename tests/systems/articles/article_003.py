"""Article 003: 用MySql实现事务型消息队列 (a transactional message queue with MySQL), Spockwang's blog, no date."""

from __future__ import annotations

from tests.systems.articles import ask, run

TABLE = "message_queue"
CREATE = """
CREATE TABLE message_queue (
  id BIGINT PRIMARY KEY AUTO_INCREMENT,

  -- owner为NULL时表示消息未被处理;否则正在被某个消费者处理,其值就是这个消费者的ID
  owner VARBINARY(255),

  -- 最近一次被owner取出的时间
  dequeued_time DATETIME,
  message VARBINARY(255) NOT NULL
)
"""
TAKE = (
    "update message_queue set owner=%s,dequeued_time=NOW() "
    "where owner is null or dequeued_time < SUBTIME(NOW(), SEC_TO_TIME(60)) limit 10"
)
OWNED = "select message from message_queue where owner=%s"
FINISH = "delete from message_queue where owner=%s"


def enqueue(*messages: str) -> None:
    for message in messages:
        run("insert into message_queue (message) values (%s)", message)


def dequeue(owner: str) -> list[str]:
    run(TAKE, owner)
    return [bytes(row[0]).decode() for row in ask(OWNED, owner)]


def finish(owner: str) -> int:
    return run(FINISH, owner)


def a_minute_passes() -> None:
    run("update message_queue set dequeued_time = dequeued_time - interval 61 second")
