-- owner, start
if not is_registered then
  return answer('unregistered')
elseif not run then
  return answer('gone')
elseif run.is.state == 'done' then
  return answer('done')
elseif not is_at(ARGV[3], ARGV[4]) then
  return answer('fenced')
elseif run.is.state == 'abandoned' then
  return answer('released') -- sent again
elseif run.is.state == 'lost' and not may_run_again() then
  return answer('fenced')
end
-- A lost one, too: nothing of it is going any more, and nobody need wait until it must be over.
despite_full_memory()
job.touched = true
set(run, 'state', 'abandoned')
set(run, 'number', int(num(run.is.number) + 1))
if job.is.slot == tick then
  set(job, 'slot', '')
end
return answer('released')
