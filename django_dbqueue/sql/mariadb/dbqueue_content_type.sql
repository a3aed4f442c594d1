CREATE FUNCTION dbqueue_content_type(_payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
RETURNS VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin
NOT DETERMINISTIC NO SQL SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- a JSON object or array is for Python to decode, all else is text as it is; the body is the same in both
    DECLARE _bare LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION RETURN 'text';
    IF LOCATE(CHAR(0), _payload) > 0 OR NOT JSON_VALID(_payload) OR JSON_TYPE(_payload) NOT IN ('OBJECT', 'ARRAY') THEN
        RETURN 'text';
    END IF;
    -- this server also takes for JSON: unknown escapes, half numbers, and numbers of more digits than Python reads
    SET _bare = REGEXP_REPLACE(_payload, '\\\\(["\\\\/bfnrt]|u[0-9A-Fa-f]{4})', '');
    IF LOCATE('\\', _bare) > 0 THEN
        RETURN 'text';
    END IF;
    SET _bare = REGEXP_REPLACE(_bare, '"[^"]*+"', '');
    IF _bare REGEXP '-([^0-9]|$)|[0-9][.]([^0-9]|$)|[0-9][eE][-+]?([^-+0-9]|$)|[0-9]{4301}' THEN
        RETURN 'text';
    END IF;
    RETURN 'json';
END
