CREATE FUNCTION {schema}.dbqueue_new_token()
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $routine$
DECLARE
    _uuid text := replace(gen_random_uuid()::text, '-', '');
BEGIN
    -- the fence of a claim: 63 random bits, never 0; a UUID's first and last 48 bits are random
    RETURN greatest(('x' || left(_uuid, 4) || right(_uuid, 12))::bit(64)::bigint & 9223372036854775807, 1);
END
$routine$
