package com.fasterxml.jackson.datatype.jsr310;

/** The features of the module that the client names. */
public enum JavaTimeFeature {
    NORMALIZE_DESERIALIZED_ZONE_ID,
    ALWAYS_ALLOW_STRINGIFIED_DATE_TIMESTAMPS;

    public boolean enabledByDefault() {
        return this == NORMALIZE_DESERIALIZED_ZONE_ID;
    }
}
