CREATE FUNCTION {schema}.ack_message(_id bigint, _token bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = {schema}, pg_temp
AS $routine$
BEGIN
    -- run to y, if this claim still holds it
    {ack};
    RETURN FOUND;
END
$routine$
