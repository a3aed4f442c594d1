CREATE FUNCTION dbqueue_new_token()
RETURNS BIGINT
NOT DETERMINISTIC NO SQL SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- the fence of a claim: 63 bits, never 0. This server has no RANDOM_BYTES(); the digest of two numbers that it never
    -- gives out twice is spread as evenly, and RAND() alone would repeat itself
    RETURN GREATEST(
        CAST(CONV(LEFT(SHA2(CONCAT_WS('/', UUID(), UUID_SHORT(), CONNECTION_ID(), RAND()), 256), 16), 16, 10) AS UNSIGNED)
            >> 1,
        1
    );
END
