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
    _line bigint;
    _status text;
    _is_parked boolean;
    _width bigint;
    _is_paused boolean;
    _is_still_there boolean;
    _tries integer := 0;
BEGIN
    -- gives the ticket of a message (or mark) to who is next in its lane (TRUE), or frees it (FALSE); NULL if it has
    -- none. Next are those that a worker has taken along, then the first of the line. In a transaction that goes on for
    -- long others may wait for what is given away, unless the lane has this ticket alone: so there the others' are freed.
    -- Messages first, then their places, then tickets.
    LOOP
        {head} INTO _lane, _ticket, _held_by, _first, _line, _status, _is_parked, _width, _is_paused;
        IF _ticket IS NULL THEN
            RETURN NULL;
        END IF;
        _width := coalesce(_width, {group_limit});
        EXIT WHEN _first IS NULL OR _is_paused OR _ticket >= _width OR (_width > 1 AND NOT _is_own) OR _tries > 8;
        _is_still_there := TRUE;
        IF _status = 'run' OR (_status = 'n' AND _line = _lane AND coalesce(_is_parked, TRUE)) THEN
            IF _status = 'n' AND _is_parked THEN
                {let_first_run};
                _is_still_there := FOUND;
            ELSIF _status = 'n' THEN
                {lock_first}; -- dead, and holds its group
                _is_still_there := FOUND;
            END IF;
            IF _is_still_there THEN
                {leave_first};
                _is_still_there := FOUND;
            END IF;
            IF _is_still_there THEN
                {pass_on};
                IF FOUND THEN
                    RETURN TRUE;
                END IF;
                {park_first}; -- the ticket was taken away by hand
                {enter_first};
                RETURN NULL;
            END IF;
        ELSE
            {leave_first}; -- dropped or moved by hand
            _is_still_there := FOUND;
            IF _is_still_there AND _status = 'n' AND _line <> _lane THEN
                {park_first};
                {let_first_wait};
            END IF;
        END IF;
        IF NOT _is_still_there THEN
            _tries := _tries + 1; -- it was moved since our read: look again
        END IF;
    END LOOP;
    {free_held};
    RETURN FALSE;
END
$routine$
