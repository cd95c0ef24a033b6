-- whether all jobs are meant, by (or empty: the job goes on), reason, only_if
if not job then
  return answer('unregistered')
end
local place = ARGV[3] == '1' and 'all_paused' or 'paused'
local found_at, found = string.match(job.is[place], '^(%S+) (.*)$')
local wanted = ARGV[4] ~= '' and (ARGV[4] .. ' ' .. ARGV[5]) or nil
if (ARGV[6] == '' or found_at == ARGV[6]) and found ~= wanted then
  job.touched = true
  set(job, place, wanted and (int(now) .. ' ' .. wanted) or '')
end
return answer('noted')
