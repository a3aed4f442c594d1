CREATE FUNCTION dbqueue_content_type(_payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
RETURNS VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin
NOT DETERMINISTIC NO SQL SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- a JSON object or array is for Python to decode, all else is text as it is; the body is the same in both
    DECLARE EXIT HANDLER FOR SQLEXCEPTION RETURN 'text'; -- 3157: nested deeper than this server reads
    IF LOCATE(CHAR(0), _payload) = 0 AND JSON_VALID(_payload) AND JSON_TYPE(_payload) IN ('OBJECT', 'ARRAY') THEN
        RETURN 'json';
    END IF;
    RETURN 'text';
END
