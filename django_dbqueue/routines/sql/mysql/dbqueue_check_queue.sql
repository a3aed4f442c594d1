CREATE PROCEDURE dbqueue_check_queue(IN _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
NO SQL SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    IF _queue_name IS NULL OR CHAR_LENGTH(_queue_name) NOT BETWEEN 1 AND 64
        OR _queue_name REGEXP '[^A-Za-z0-9_.:-]' OR LEFT(_queue_name, 1) REGEXP '[^A-Za-z0-9]'
    THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
            'queue_name must be 1 to 64 of A-Z a-z 0-9 _ . : -, beginning with a letter or a digit';
    END IF;
    -- its messages are orders to the workers, which people with permissions give
    IF _queue_name = {forbidden} THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this queue is not for routines: it is the one of the bulk operations';
    END IF;
END
