-- owner, start
if not is_registered then
  return answer('unregistered')
elseif not run then
  return answer('gone')
elseif run.is.state == 'done' then
  return answer('done')
elseif run.is.state == 'abandoned' or not is_at(ARGV[3], ARGV[4]) then
  return answer('fenced')
elseif run.is.state == 'lost' then
  return answer('lost')
end
despite_full_memory()
set(run, 'number', int(num(run.is.number) + 1))
set(run, 'renewed_at', int(now))
return answer('renewed')
