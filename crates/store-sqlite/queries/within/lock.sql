-- Changes nothing. Every statement that could write takes the file's write lock first.
UPDATE windlass_queues SET config = config WHERE name = ''
