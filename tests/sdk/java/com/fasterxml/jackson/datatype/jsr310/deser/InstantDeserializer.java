package com.fasterxml.jackson.datatype.jsr310.deser;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import java.io.IOException;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.time.temporal.Temporal;
import java.time.temporal.TemporalAccessor;
import java.util.function.BiFunction;
import java.util.function.Function;

/** Reads a time that is a text; the service sends no others. The client's own class extends this one. */
public class InstantDeserializer<T extends Temporal> extends StdDeserializer<T> {
    public static final InstantDeserializer<OffsetDateTime> OFFSET_DATE_TIME = new InstantDeserializer<>(
            OffsetDateTime.class, DateTimeFormatter.ISO_OFFSET_DATE_TIME, OffsetDateTime::from,
            null, null, null, true, true, false);

    private final transient DateTimeFormatter formatter;
    private final transient Function<TemporalAccessor, T> parsedToValue;

    protected InstantDeserializer(
            Class<T> supportedType,
            DateTimeFormatter formatter,
            Function<TemporalAccessor, T> parsedToValue,
            Function<FromIntegerArguments, T> fromMilliseconds,
            Function<FromDecimalArguments, T> fromNanoseconds,
            BiFunction<T, ZoneId, T> adjust,
            boolean replaceZeroOffsetAsZ,
            boolean normalizeZoneId,
            boolean readNumericStringsAsTimestamp) {
        super(supportedType);
        this.formatter = formatter;
        this.parsedToValue = parsedToValue;
    }

    @Override
    public T deserialize(JsonParser parser, DeserializationContext context) throws IOException {
        return _fromString(parser, context, parser.getText());
    }

    protected T _fromString(JsonParser parser, DeserializationContext context, String text) throws IOException {
        return parsedToValue.apply(formatter.parse(text));
    }

    public static class FromIntegerArguments {
        public long value;
        public ZoneId zoneId;
    }

    public static class FromDecimalArguments {
        public long integer;
        public int fraction;
        public ZoneId zoneId;
    }
}
