// The body of a panel by its kind.
import { dateTime, VizOrientation } from '@grafana/data';
import { BarGauge, BigValue, TimeSeries } from '@grafana/ui';
import { frames, lastOf } from './frames.js';
import { Heatmap, StateTimeline, Table } from './others.jsx';

export function Body({ panel, recorded, theme, width, height }) {
  const series = recorded.answers[panel.id] ?? [];
  if (panel.type === 'text') {
    return <div style={{ padding: 8 }}>{panel.options.content}</div>;
  }
  if (!series.length) {
    return <NoValue text={panel.fieldConfig?.defaults.noValue} theme={theme} height={height} />;
  }
  const drawn = { panel, series, theme, width, height, recorded };
  switch (panel.type) {
    case 'timeseries':
      return <Lines {...drawn} />;
    case 'stat':
      return <Stat {...drawn} />;
    case 'bargauge':
      return <Bars {...drawn} />;
    case 'state-timeline':
      return <StateTimeline {...drawn} />;
    case 'heatmap':
      return <Heatmap {...drawn} />;
    default:
      return <Table {...drawn} />;
  }
}

function NoValue({ text, theme, height }) {
  const style = { color: theme.colors.text.secondary, display: 'grid', placeItems: 'center', height };
  return <div style={style}>{text}</div>;
}

function Lines({ panel, series, theme, width, height, recorded }) {
  const from = dateTime(recorded.from_ms);
  const to = dateTime(recorded.to_ms);
  return (
    <TimeSeries
      frames={frames(panel, series, theme)}
      width={width}
      height={height}
      timeRange={{ from, to, raw: { from, to } }}
      timeZone="utc"
      legend={{ displayMode: 'list', placement: 'bottom', calcs: [], showLegend: true }}
    >
      {() => null}
    </TimeSeries>
  );
}

function Stat({ panel, series, theme, width, height }) {
  const drawn = frames(panel, series, theme).map((frame) => frame.fields[1]);
  const each = width / drawn.length;
  return (
    <div style={{ display: 'flex' }}>
      {drawn.map((field) => {
        const value = { ...field.display(lastOf(field)), title: drawn.length > 1 ? field.name : undefined };
        const y = { ...field, config: { ...field.config, custom: {} } };
        return (
          <BigValue
            key={field.name}
            theme={theme}
            width={each}
            height={height}
            value={value}
            colorMode="value"
            graphMode={field.values.length > 1 ? 'area' : 'none'}
            justifyMode="auto"
            textMode="auto"
            sparkline={field.values.length > 1 ? { y } : undefined}
          />
        );
      })}
    </div>
  );
}

function Bars({ panel, series, theme, width, height }) {
  const drawn = frames(panel, series, theme).map((frame) => frame.fields[1]);
  // One width for all titles and values, so that the bars begin and end alike.
  const longest = (texts) => texts.reduce((one, other) => (other.length > one.length ? other : one), '');
  const shown = (value) => value.text + (value.suffix ?? '');
  const factors = {
    title: longest(drawn.map((field) => field.name)),
    text: longest(drawn.map((field) => shown(field.display(lastOf(field))))),
  };
  const largest = Math.max(...drawn.map((field) => lastOf(field) ?? 0));
  return drawn.map((field) => (
    <BarGauge
      key={field.name}
      theme={theme}
      width={width}
      height={Math.min(height / drawn.length, 60)}
      field={{ ...field.config, min: field.config.min ?? 0, max: field.config.max ?? largest }}
      display={field.display}
      value={{ ...field.display(lastOf(field)), title: field.name }}
      orientation={VizOrientation.Horizontal}
      displayMode="gradient"
      text={panel.options.text}
      alignmentFactors={factors}
      showUnfilled
    />
  ));
}

