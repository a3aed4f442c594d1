CREATE FUNCTION {schema}.dbqueue_hand_over(_queue_name text, _lane bigint, _held_by bigint, _is_own boolean)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_bitmapscan = off
SET enable_seqscan = off
AS $routine$
DECLARE
    _ticket bigint;
    _first bigint;
    _status text;
    _is_parked boolean;
    _width bigint;
    _is_paused boolean;
BEGIN
    -- gives the ticket of a message (or mark) to the first of its lane's line (TRUE), or frees it (FALSE); NULL if it
    -- has none. In a transaction that goes on for long others may wait for what is given away, unless the lane has
    -- this ticket alone: so there the others' are freed. Messages first, then their places, then tickets.
    LOOP
        {head} INTO _lane, _ticket, _held_by, _first, _status, _is_parked, _width, _is_paused;
        IF _ticket IS NULL THEN
            RETURN NULL;
        END IF;
        _width := coalesce(_width, {group_limit});
        EXIT WHEN _first IS NULL OR _is_paused OR _ticket >= _width OR (_width > 1 AND NOT _is_own);
        IF _status = 'run' OR (_status = 'n' AND _is_parked) THEN
            IF _status = 'n' THEN
                {let_first_run};
                EXIT WHEN NOT FOUND; -- it was moved since our read: whoever kicks next looks again
            END IF;
            {leave_first};
            {pass_on};
            IF FOUND THEN
                RETURN TRUE;
            END IF;
            {park_first}; -- the ticket was taken away by hand
            {enter_first};
            RETURN NULL;
        END IF;
        {leave_first}; -- dropped or moved by hand
        EXIT WHEN NOT FOUND;
    END LOOP;
    {free_held};
    RETURN FALSE;
END
$routine$
