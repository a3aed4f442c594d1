CREATE FUNCTION {schema}.dbqueue_check_seconds(_name text, _least double precision, _seconds double precision)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $routine$
BEGIN
    IF _seconds NOT BETWEEN _least AND {max_seconds} THEN
        RAISE EXCEPTION '% must be from % to {max_seconds} seconds, or NULL for the setting', _name, _least
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$routine$
