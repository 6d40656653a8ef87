-- Each start of a dispatcher takes a number: the keys it makes for acquires without one must never have been used, also
-- after a restart with the same random seed.
CREATE SEQUENCE dispatcher_numbers;
