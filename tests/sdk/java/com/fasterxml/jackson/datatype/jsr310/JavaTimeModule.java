package com.fasterxml.jackson.datatype.jsr310;

import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.datatype.jsr310.deser.InstantDeserializer;
import java.time.OffsetDateTime;

/** Stands in for the one module of Jackson that Debian does not have. */
public class JavaTimeModule extends SimpleModule {
    public JavaTimeModule() {
        addDeserializer(OffsetDateTime.class, InstantDeserializer.OFFSET_DATE_TIME);
    }
}
