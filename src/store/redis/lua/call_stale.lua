-- by, last_success, since, fresh_at, and when it is stale
if not is_registered then
  return answer('unregistered')
elseif job.is.last_success ~= ARGV[4] or (ARGV[4] == '' and job.is.since ~= ARGV[5]) then
  return answer('changed')
end
local said_of, said_by = string.match(job.is.stale, '^(%S+) (.*)$')
if said_of == ARGV[6] then
  return answer(said_by == ARGV[3] and 'settled' or 'changed')
end
local early_ms = tonumber(ARGV[7]) - now
if early_ms > 0 then
  return answer('too_early', int(early_ms))
end
job.touched = true
set(job, 'stale', ARGV[6] .. ' ' .. ARGV[3])
return answer('settled')
