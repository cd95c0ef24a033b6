if not job then
  return answer('unregistered')
end
return answer('read')
