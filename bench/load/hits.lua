-- Makes wrk send the requests of a file in turn, one for each line "TARGET KEY [HEADER: VALUE]", at
-- full speed or, with a second argument, at this rate a second: each request has a time at which a
-- free connection sends it. Use one thread: each thread would begin with the first line.
local ffi = require("ffi")
ffi.cdef("typedef struct { long s, ns; } gr_time; int clock_gettime(int clock, gr_time *time);")
local heads, index = {}, 0

local function now()
    local time = ffi.new("gr_time")
    ffi.C.clock_gettime(1, time)
    return tonumber(time.s) + tonumber(time.ns) / 1e9
end

-- wrk waits for whole milliseconds. Rounding at random keeps the rate.
local function pace(per_second)
    local due = now()
    function delay()
        due = due + 1 / per_second
        return math.floor(math.max(0, due - now()) * 1000 + math.random())
    end
end

function init(arguments)
    for line in io.lines(arguments[1]) do
        local target, key, extra = line:match("^(%S+) (%S+) ?(.*)$")
        local headers = { ["X-API-Key"] = key }
        local name, value = extra:match("^([^:]+): (.*)$")
        if name then headers[name] = value end
        heads[#heads + 1] = wrk.format("GET", target, headers)
    end
    if arguments[2] then pace(tonumber(arguments[2])) end
end

function request()
    index = index % #heads + 1
    return heads[index]
end

function done(summary, latency)
    local counts = summary.errors
    io.write(string.format(
        "JSON {\"requests\": %d, \"seconds\": %.6f, \"p50_us\": %d, \"p99_us\": %d, \"p999_us\": %d, \"not_200\": %d, \"broken\": %d}\n",
        summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
        latency:percentile(99.9), counts.status,
        counts.connect + counts.read + counts.write + counts.timeout))
end
