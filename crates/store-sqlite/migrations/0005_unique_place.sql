-- A unique key that ends with its job stands in the row of the job that holds it, and a small index finds it. Rows of their
-- own have only keys that are held for a time, and may outlive their job, and those whose place another one has.

ALTER TABLE windlass_jobs ADD COLUMN unique_place INTEGER;    -- 48 bits of queue and digest; NULL: it holds no key

CREATE UNIQUE INDEX windlass_jobs_unique ON windlass_jobs (unique_place) WHERE unique_place IS NOT NULL;

-- Keys of layouts before stay here until they are given up. Another name, so that no program of before decides by this alone.
ALTER TABLE windlass_keys RENAME TO windlass_held;
