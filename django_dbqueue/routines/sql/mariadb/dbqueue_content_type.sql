CREATE FUNCTION dbqueue_content_type(_payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
RETURNS VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin
NOT DETERMINISTIC NO SQL SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- a JSON object or array is for Python to decode, all else is text as it is; the body is the same in both
    DECLARE EXIT HANDLER FOR SQLEXCEPTION RETURN 'text';
    IF NOT JSON_VALID(_payload) OR JSON_TYPE(_payload) NOT IN ('OBJECT', 'ARRAY') THEN
        RETURN 'text';
    END IF;
    -- this server also takes for JSON: unknown escapes, half numbers, and numbers of more digits than Python reads. So
    -- each token is looked at; nothing in the pattern looks back, so that it takes one pass over the text
    IF _payload REGEXP CONCAT(
        '\\A(?:',
        '[ \\t\\r\\n\\[\\]{},:]++', '|',
        '"(?:[^"\\\\\\x00-\\x1f]++|\\\\["\\\\/bfnrt]|\\\\u[0-9A-Fa-f]{4})*+"', '|',
        '-?(?:0|[1-9][0-9]{0,4299}+)(?:\\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+(?![-+.0-9eE])', '|',
        'true|false|null',
        ')*+\\z'
    ) THEN
        RETURN 'json';
    END IF;
    RETURN 'text';
END
