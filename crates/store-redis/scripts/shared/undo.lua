-- For scripts that find what commands of their transaction have written before them: runs such a script, and takes that
-- back where nothing is accepted, also if the script fails.
local function run_or_undo(run, is_accepted, undo)
  local has_run, answer = pcall(run)
  if not has_run and type(answer) ~= 'table' then
    -- An error of a script itself is a text, and up to version 6.2 any: it is told as such a server tells it.
    answer = { err = 'ERR Error running script: ' .. answer }
  end
  if not (has_run and is_accepted(answer)) then
    pcall(undo)
  end
  return answer
end
