SELECT
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?2) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?3) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?4) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?5) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?6) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?7) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?8) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?9) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?10) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?11) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?12) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?13) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?14) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?15) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?16) OR
    EXISTS (SELECT 1 FROM windlass_held WHERE queue = ?1 AND digest = ?17)
