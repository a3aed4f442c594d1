CREATE FUNCTION {schema}.dbqueue_content_type(_payload text)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $routine$
DECLARE
    _bare text;
BEGIN
    -- a JSON object or array is for Python to decode, all else is text as it is; the body is the same in both
    IF json_typeof(_payload::json) NOT IN ('object', 'array') THEN
        RETURN 'text';
    END IF;
    -- this server also takes numbers of more digits, and deeper nesting, than Python reads
    IF length(_payload) > 400 THEN
        _bare := regexp_replace(_payload, E'"([^"\\\\]|\\\\.)*"', '', 'g');
        IF _bare ~ '([0-9]{100}){43}' OR (
            length(_bare) - length(translate(_bare, '[{', '')) > {max_depth}
            AND jsonb_path_exists(_payload::jsonb, '$.**{{max_depth} to last}')
        ) THEN
            RETURN 'text';
        END IF;
    END IF;
    RETURN 'json';
EXCEPTION
    WHEN data_exception OR statement_too_complex THEN
        RETURN 'text';
END
$routine$
