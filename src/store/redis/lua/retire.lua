-- Removes a job with all its records if nobody registered it for so long and it has no open run. ARGV[3]: how long, in
-- milliseconds. Answers 1 where it did.
if not job or num(job.is.registered_at) >= now - tonumber(ARGV[3]) or job.is.open ~= '' then
  return 0
end
for _, old in ipairs(redis.call('ZRANGE', prefix .. 'final', 0, -1)) do
  redis.call('UNLINK', prefix .. 'run:' .. old)
end
for _, name in ipairs({ 'final', 'orders', 'history', 'output:succeeded', 'output:failed', 'job' }) do
  redis.call('UNLINK', prefix .. name)
end
return 1
