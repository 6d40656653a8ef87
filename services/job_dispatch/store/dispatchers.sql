-- name: next_dispatcher_number
-- A number that no other dispatcher has or had.
SELECT nextval('dispatcher_numbers');
