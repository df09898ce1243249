SELECT
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?1) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?2) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?3) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?4) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?5) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?6) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?7) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?8) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?9) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?10) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?11) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?12) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?13) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?14) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?15) OR
    EXISTS (SELECT 1 FROM windlass_jobs WHERE unique_place = ?16)
