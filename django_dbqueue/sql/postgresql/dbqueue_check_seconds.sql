CREATE FUNCTION {schema}.dbqueue_check_seconds(_name text, _seconds double precision)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = {schema}, pg_temp
AS $routine$
BEGIN
    IF _seconds NOT BETWEEN 0 AND {max_seconds} THEN
        RAISE EXCEPTION '% must be from 0 to {max_seconds} seconds, or NULL for the setting', _name
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$routine$
