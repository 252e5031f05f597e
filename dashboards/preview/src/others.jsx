// Panels that Grafana draws by plugins, after their looks: state timeline, heatmap, table.
import { getDisplayProcessor } from '@grafana/data';

export function StateTimeline({ panel, series, theme, width, height, recorded }) {
  const names = 150;
  const names_of = panel.fieldConfig.defaults.mappings[0]?.options ?? {};
  const used = new Map();
  const span = recorded.to_ms - recorded.from_ms;
  const rowHeight = (height - 30) / series.length;
  const rows = series.map((one) => {
    const parts = [];
    one.times.forEach((time, at) => {
      const value = one.values[at];
      if (value === null) return;
      const until = one.times[at + 1] ?? recorded.to_ms;
      const last = parts[parts.length - 1];
      if (last && last.value === value && last.until === time) last.until = until;
      else parts.push({ value, from: time, until });
    });
    return { name: one.name, parts };
  });
  return (
    <div>
      {rows.map(({ name, parts }) => (
        <div key={name} style={{ display: 'flex', height: rowHeight, alignItems: 'center' }}>
          <div style={{ width: names, paddingRight: 8, textAlign: 'right', fontSize: 12 }}>{name}</div>
          <div style={{ position: 'relative', width: width - names, height: rowHeight * 0.8 }}>
            {parts.map((part) => {
              const shown = names_of[part.value] ?? { text: String(part.value), color: theme.colors.text.secondary };
              used.set(shown.text, shown.color);
              const share = (part.until - part.from) / span;
              return (
                <div
                  key={part.from}
                  style={{
                    position: 'absolute',
                    left: `${(100 * (part.from - recorded.from_ms)) / span}%`,
                    width: `${100 * share}%`,
                    height: '100%',
                    background: shown.color,
                    color: theme.colors.getContrastText(shown.color),
                    fontSize: 12,
                    overflow: 'hidden',
                    paddingLeft: 4,
                    boxSizing: 'border-box',
                    display: 'flex',
                    alignItems: 'center',
                    whiteSpace: 'nowrap',
                  }}
                >
                  {share * width > 60 ? shown.text : ''}
                </div>
              );
            })}
          </div>
        </div>
      ))}
      <div style={{ display: 'flex', gap: 12, fontSize: 12, paddingLeft: 8, color: theme.colors.text.secondary }}>
        {[...used].map(([text, colour]) => (
          <span key={text}>
            <span style={{ color: colour }}>■</span> {text}
          </span>
        ))}
      </div>
    </div>
  );
}

export function Heatmap({ panel, series, theme, width, height, recorded }) {
  const axis = 60;
  const bounds = [...series].sort((one, other) => boundOf(one) - boundOf(other));
  const display = getDisplayProcessor({ field: { type: 'number', config: { unit: 's' } }, theme });
  const counts = bounds.map((one, row) =>
    one.values.map((value, at) => Math.max((value ?? 0) - (row ? (bounds[row - 1].values[at] ?? 0) : 0), 0))
  );
  const filled = counts.map((row) => row.some((count) => count > 0));
  const first = Math.max(filled.indexOf(true) - 1, 0);
  const last = Math.min(filled.lastIndexOf(true) + 1, bounds.length - 1);
  const rows = last - first + 1;
  const most = Math.max(...counts.flat(), 1);
  const columns = bounds[0].times.length;
  const cell = { width: (width - axis) / columns, height: (height - 8) / rows };
  return (
    <svg width={width} height={height}>
      {bounds.slice(first, last + 1).map((one, row) => {
        const y = (rows - 1 - row) * cell.height;
        const bound = boundOf(one);
        return (
          <g key={one.name}>
            <text x={axis - 8} y={y + cell.height / 2 + 4} textAnchor="end" fontSize="11" fill={theme.colors.text.secondary}>
              {Number.isFinite(bound) ? display(bound).text + (display(bound).suffix ?? '') : '∞'}
            </text>
            {counts[first + row].map((count, at) =>
              count > 0 ? (
                <rect
                  key={at}
                  x={axis + at * cell.width}
                  y={y}
                  width={cell.width}
                  height={cell.height - 1}
                  fill="#5794F2"
                  opacity={0.15 + 0.85 * Math.sqrt(count / most)}
                />
              ) : null
            )}
          </g>
        );
      })}
    </svg>
  );
}

function boundOf(series) {
  return series.name === '+Inf' ? Infinity : Number(series.name);
}

export function Table({ panel, series, theme, width, height }) {
  const columns = series[0].columns;
  const cellStyle = { padding: '4px 10px', borderBottom: `1px solid ${theme.colors.border.weak}`, textAlign: 'left' };
  return (
    <div style={{ height, overflow: 'hidden' }}>
      <table style={{ width, borderCollapse: 'collapse', fontSize: 13 }}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} style={{ ...cellStyle, color: theme.colors.text.link, fontWeight: 500 }}>
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {series[0].rows.map((row, at) => (
            <tr key={at}>
              {row.map((value, column) => (
                <td key={column} style={cellStyle}>
                  <Cell value={value} name={columns[column]} panel={panel} theme={theme} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell({ value, name, panel, theme }) {
  if (typeof value !== 'number') return value ?? '';
  const display = getDisplayProcessor({ field: { name, type: 'number', config: panel.fieldConfig.defaults }, theme });
  const shown = display(value);
  return <span style={{ color: panel.fieldConfig.defaults.mappings.length ? shown.color : undefined }}>
    {(shown.prefix ?? '') + shown.text + (shown.suffix ?? '')}
  </span>;
}
