-- owner, start, outcome, exit_code, signal, duration_ms, error, output_tail, http_status
if not is_registered then
  return answer('unregistered')
elseif not run then
  return answer('gone')
elseif not is_at(ARGV[3], ARGV[4]) then
  return answer('fenced')
end

local outcome, state = ARGV[5], run.is.state
local was_lost = run.is.outcome == 'lost'
-- Interrupted is not the job's own end: its lease was lost, or its replica was asked to end.
if outcome == 'interrupted' and may_run_again() then
  if state == 'abandoned' then
    return answer('recorded') -- sent again
  elseif state == 'begun' or state == 'lost' then
    despite_full_memory()
    give_back()
    return answer('recorded')
  end
end
if state == 'done' and not was_lost then
  return answer('recorded') -- sent again
elseif state == 'done' and run.is.late_outcome ~= '' then
  return answer('recorded_late') -- sent again
elseif state == 'claimed' or state == 'abandoned' then
  return answer('fenced') -- nothing began that could end
end

despite_full_memory()
job.touched = true
set(run, 'exit_code', ARGV[6])
set(run, 'signal', ARGV[7])
set(run, 'http_status', ARGV[11])
set(run, 'duration_ms', ARGV[8])
set(run, 'error', ARGV[9])
set(run, 'ended_at', int(now))
if state == 'lost' or was_lost then
  set(run, 'late_outcome', outcome)
  if was_lost then
    late_outcome = outcome
  else
    -- A run that would have been started again: its owner's account makes that needless.
    set(run, 'outcome', 'lost')
    count('lost')
    decided(ARGV[10])
  end
  close()
  return answer('recorded_late')
end
set(run, 'outcome', outcome)
count(outcome)
decided(ARGV[10])
close()
return answer('recorded')
