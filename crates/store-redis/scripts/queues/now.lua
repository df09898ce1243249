-- Tells the time. Changes nothing.
--
-- KEYS 1 a key of the server that is asked
-- ARGV 1 clock
-- Answers the present instant, in micros.

return clock.now_text
