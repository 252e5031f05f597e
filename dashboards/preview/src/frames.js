// Recorded series to Grafana's data frames, with the panel's field configuration applied.
import { FieldType, getDisplayProcessor, toDataFrame } from '@grafana/data';

export function frames(panel, series, theme) {
  return series.map((one, index) => {
    const config = configOf(panel, one.name);
    const frame = toDataFrame({
      name: one.name,
      fields: [
        { name: 'Time', type: FieldType.time, values: one.times, config: {} },
        { name: one.name, type: FieldType.number, values: one.values, config, labels: {} },
      ],
    });
    const field = frame.fields[1];
    field.config = config;
    field.state = { seriesIndex: index, displayName: one.name, range: rangeOf(one.values, config) };
    field.display = getDisplayProcessor({ field, theme });
    frame.fields[0].display = getDisplayProcessor({ field: frame.fields[0], theme });
    return frame;
  });
}

function configOf(panel, name) {
  const { defaults, overrides } = panel.fieldConfig;
  const config = structuredClone({ ...defaults, displayName: name });
  for (const { matcher, properties } of overrides) {
    const pattern = matcher.id === 'byRegexp' ? new RegExp(matcher.options.slice(1, -1)) : null;
    if (pattern ? pattern.test(name) : matcher.options === name) {
      for (const { id, value } of properties) {
        config[id] = value;
      }
    }
  }
  return config;
}

function rangeOf(values, config) {
  const known = values.filter((value) => value !== null);
  const min = config.min ?? Math.min(...known);
  const max = config.max ?? Math.max(...known);
  return { min, max, delta: max - min };
}

export function lastOf(field) {
  const known = field.values.filter((value) => value !== null);
  return known.length ? known[known.length - 1] : null;
}
