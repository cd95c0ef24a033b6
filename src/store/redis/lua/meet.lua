-- KEYS[1]: hash of all members' presences. ARGV[1], ARGV[2]: one's own name and presence (JSON), or empty to look only.
-- Then, two each: name and number of a member to remove if it has given no sign of life since. Answers the time and all.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local now_text = string.format('%.0f', now)

-- For a server that is out of memory, as in common.lua: a presence takes the place of the one before it.
redis.call('HDEL', KEYS[1], '-')
for i = 3, #ARGV, 2 do
  local text = redis.call('HGET', KEYS[1], ARGV[i])
  -- Quotes inside of values are escaped, so nothing but the field itself reads so; what is unreadable has none.
  if text and (string.match(text, '"number":(%d+)') or '0') == ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
if ARGV[1] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], '{"written_at":' .. now_text .. ',' .. string.sub(ARGV[2], 2))
end
return { now_text, redis.call('HGETALL', KEYS[1]) }
