CREATE PROCEDURE dbqueue_check_seconds(IN _name VARCHAR(32) CHARACTER SET utf8mb4, IN _least DOUBLE, IN _seconds DOUBLE)
NO SQL SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    DECLARE _problem VARCHAR(128) CHARACTER SET utf8mb4;
    IF _seconds NOT BETWEEN _least AND {max_seconds} THEN
        SET _problem = CONCAT(_name, ' must be from ', _least, ' to {max_seconds} seconds, or NULL for the setting');
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = _problem;
    END IF;
END
