-- Limits the requests a minute for each API key, counted in Redis, as the usual recipes do. A key's
-- limit comes from shared memory; each request is one INCR over a kept-alive connection, and an
-- EXPIRE if the counter is new. The Redis protocol is written by hand: Debian packages no Lua client.
local limit = {}

-- Loads keys and their limits from lines "KEY LIMIT".
function limit.load(file)
    local keys = ngx.shared.keys
    for line in io.lines(file) do
        local key, max_requests = line:match("^(%S+) (%d+)$")
        keys:set(key, tonumber(max_requests))
    end
end

local function command(...)
    local parts = { "*", select("#", ...), "\r\n" }
    for _, part in ipairs({ ... }) do
        parts[#parts + 1] = "$" .. #part .. "\r\n" .. part .. "\r\n"
    end
    return table.concat(parts)
end

local function send_command(socket, ...)
    local sent, failed = socket:send(command(...))
    if not sent then return nil, failed end
    local line, no_reply = socket:receive("*l")
    if not line then return nil, no_reply end
    return tonumber(line:sub(2))
end

local function count(port, key)
    local socket = ngx.socket.tcp()
    socket:settimeout(50)
    local connected, failed = socket:connect("127.0.0.1", port)
    if not connected then return nil, failed end
    local counted, no_count = send_command(socket, "INCR", "lua:" .. key)
    if counted == 1 then send_command(socket, "EXPIRE", "lua:" .. key, "60") end
    if counted then socket:setkeepalive(60000, 256) else socket:close() end
    return counted, no_count
end

function limit.check(port)
    local key = ngx.var.http_x_api_key
    local max_requests = key and ngx.shared.keys:get(key)
    if not max_requests then return ngx.exit(401) end
    local counted, failed = count(port, key)
    if not counted then
        ngx.log(ngx.ERR, "not counted: ", failed)
        return ngx.exit(503)
    end
    if counted > max_requests then return ngx.exit(429) end
end

return limit
