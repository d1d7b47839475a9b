// Draws the OpenAPI document of this service. Nothing is sent to anybody else.
import { init } from "/redoc/bundle.js";

const options = { disableTelemetry: true, hideLoading: true };
init("/openapi.json", options, document.getElementById("reference"));
