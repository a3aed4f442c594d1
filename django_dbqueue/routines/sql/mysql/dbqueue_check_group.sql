CREATE PROCEDURE dbqueue_check_group(
    IN _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    IN _group_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
)
NO SQL SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    DECLARE _stands_for_all BOOLEAN DEFAULT CHAR_LENGTH(_group_name) = 1 AND _group_name = {whole_queue};
    DECLARE _problem VARCHAR(128) CHARACTER SET utf8mb4 DEFAULT CASE
        WHEN {is_whole} AND NOT _stands_for_all
            THEN 'all messages of this queue are one group, so none can name another: leave group_name NULL'
        WHEN NOT {is_whole} AND _stands_for_all
            THEN 'group_name * stands for all messages of a queue: set the option group of the queue, or take another'
        WHEN CHAR_LENGTH(_group_name) NOT BETWEEN 1 AND {max_group}
            THEN 'group_name must have 1 to {max_group} characters'
        WHEN LOCATE(CHAR(0 USING utf8mb4), _group_name) > 0
            THEN 'group_name must not have a NUL character'
    END;
    IF _problem IS NOT NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = _problem;
    END IF;
END
