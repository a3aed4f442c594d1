"""Article 001: 用mysql实现消息队列 (a message queue with MySQL), by xiaojiong, 2016-01-04."""

from __future__ import annotations

from tests.systems.articles import ask, run

TABLE = "`queue`"
CREATE = """
CREATE TABLE `queue` (
  `id` int(11) unsigned NOT NULL AUTO_INCREMENT,
  `biz` int(11) DEFAULT NULL COMMENT '业务号',
  `conn_id` int(11) unsigned DEFAULT '0' COMMENT '连接ID',
  `status` enum('y','run','n') DEFAULT 'n' COMMENT '状态（n=>未处理，run=>处理中，y=>处理完毕）',
  `data_string` text COMMENT '数据载体',
  `times` int(10) DEFAULT NULL COMMENT '入库时间',
  `update_times` int(10) DEFAULT NULL COMMENT '状态更新时间',
  PRIMARY KEY (`id`),
  KEY `biz` (`biz`,`conn_id`,`status`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8
"""
INSERT = "INSERT INTO `queue` (`biz`, `data_string`, `times`) VALUES (%s, %s, %s)"
TAKE = (
    "UPDATE `queue` SET `status` = 'run', `update_times` = %s, `conn_id` = CONNECTION_ID() "
    "WHERE `conn_id` = 0 AND `status` = 'n' LIMIT 1"
)
CLAIMED = (
    "SELECT `id`, `biz`, `status`, `times`, `data_string` FROM `queue` "
    "WHERE `biz` = %s AND `conn_id` = CONNECTION_ID() AND `status` = 'run' "
)
"""As printed, but for the name of the table, which is `athena_queue` there."""
FINISH_AS_PRINTED = (
    "UPDATE `queue` SET `status` = 'y', `update_times` = 1451879201 "
    "WHERE `id` = %s, `conn_id` = %s AND `status` = 'run' "
)
FINISH = FINISH_AS_PRINTED.replace("%s, `conn_id`", "%s AND `conn_id`")
"""What it must have meant."""
GUARD = (
    "UPDATE `queue` SET `status` = 'n', `update_times` = 1451879201, `conn_id` = 0 "
    "WHERE `conn_id` NOT IN ({sessions}) AND `status` = 'run' AND `update_times` < %s"
)
"""Scheme one, with the ids that SHOW PROCESSLIST has given."""
TAKE_OVER = (
    "UPDATE `queue` SET `status` = 'n', `update_times` = 1451879201, `conn_id` = 0 "
    "WHERE (`conn_id` = 0 AND `status` = 'n' ) "
    "OR (`conn_id` NOT IN ({sessions}) AND `status` = 'run' AND `update_times` < %s) limit 1"
)
"""Scheme two: it takes the place of TAKE."""

NOW = 1451879201
LONG_AGO = NOW - 3600


def enqueue(biz: int, data: str) -> None:
    run(INSERT, biz, data, NOW)


def claim(biz: int, *, at: int = NOW) -> list[int]:
    run(TAKE, at)
    return [row[0] for row in ask(CLAIMED, biz)]


def sessions_seen() -> str:
    return ", ".join(str(row[0]) for row in ask("SHOW PROCESSLIST"))


def states() -> list[tuple[int, str]]:
    return ask("SELECT `biz`, `status` FROM `queue` ORDER BY `id`")
